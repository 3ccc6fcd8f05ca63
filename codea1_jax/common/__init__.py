"""What every room uses: errors, files, and what people see."""
