"""What people see of a turn that runs, beside what it says."""
