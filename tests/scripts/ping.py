"""ping -c COUNT -i SECONDS [-W SECONDS] ADDRESS, for machines without it: exit code 0 if an echo comes back, 1 if none does."""

import argparse
import socket
import struct
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("-c", type=int, default=1)
parser.add_argument("-i", type=float, default=0.2)
parser.add_argument("-W", type=float, default=1)
parser.add_argument("address")
options = parser.parse_args()

answered = 0
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as icmp:
    icmp.settimeout(options.W)
    for number in range(options.c):
        checksum = 0xFFFF - (0x0800 + number)
        icmp.sendto(struct.pack("!BBHHH", 8, 0, checksum, 0, number), (options.address, 0))
        try:
            answered += icmp.recv(1500)[20] == 0  # an echo's reply
        except TimeoutError:
            continue
        time.sleep(options.i)
sys.exit(answered == 0)
