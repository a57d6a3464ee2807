"""p4.tmp of p4lang's PI, which controllers for BMv2 import and the package p4runtime lacks. Set-up links it beside that package."""
