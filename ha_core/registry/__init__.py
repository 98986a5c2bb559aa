"""The platform: who exists, what each may do and use, and how gateways are set; with who changed it, when and why."""
