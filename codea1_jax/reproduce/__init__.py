"""Tables, the paper's and others: which runs a table needs, running what is missing, and the figures side by side."""
