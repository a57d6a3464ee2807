"""What a network looks like: racks, hosts, links, rates; building it in Mininet; a namespace of its own for each."""
