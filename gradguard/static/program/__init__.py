"""Who is who in a program: what a name means, across functions, classes and files."""
