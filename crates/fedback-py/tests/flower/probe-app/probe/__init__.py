"""The probe."""
