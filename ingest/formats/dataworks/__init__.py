"""DataWorks (StreamX) JSON."""
