"""The paper's tables, reproduced: which runs a table needs, running what is missing, and the figures side by side."""
