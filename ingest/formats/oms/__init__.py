"""OMS: Default, DefaultExtendColumnType, DataWorks 2.0 and SharePlex."""
