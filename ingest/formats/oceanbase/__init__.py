"""OceanBase Cloud's data subscription, in Avro."""
