"""What this client costs, beside what the reference's costs; see README.rst here."""
