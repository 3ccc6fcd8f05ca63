"""What every room uses: errors, files, what people see, and the figures of accelerators."""
