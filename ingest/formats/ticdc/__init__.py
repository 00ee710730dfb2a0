"""TiCDC's own protocols: Open Protocol and Simple."""
