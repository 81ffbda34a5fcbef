"""Do jobs in processes of their own, one for each GPU or core."""
