"""What is measured with the library: theorems, studies, evaluations and the demo, and their pages."""
