"""What the product costs, against Spark's own means on the same data in the same run."""
