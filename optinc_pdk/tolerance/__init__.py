"""What real devices and real light do to a chip that is exact on paper."""
