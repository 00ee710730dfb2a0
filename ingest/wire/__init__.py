"""What wire formats are made of: the contract of a decoder and the parts that several share."""
