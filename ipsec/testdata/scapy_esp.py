"""ESP as scapy has it: a JSON object a line in, a packet in hexadecimal a line out.

Each object has an association, and either "open", a packet to decrypt, or "seal", one
to protect with the sequence number "seq".
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore")  # of ciphers that are no concern here

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.packet import raw


def ip(data):
    return IP(data) if data[0] >> 4 == 4 else IPv6(data)


def association(c):
    tunnel = None
    if c["tunnel"]:
        tunnel = (IPv6 if ":" in c["src"] else IP)(src=c["src"], dst=c["dst"])
    return SecurityAssociation(
        ESP,
        c["spi"],
        crypt_algo=c["cipher"],
        crypt_key=bytes.fromhex(c["key"]) or None,
        auth_algo=c["auth"],
        auth_key=bytes.fromhex(c["auth_key"]) or None,
        tunnel_header=tunnel,
        nat_t_header=UDP(sport=4500, dport=4500) if c["udp"] else None,
        esn_en=c["esn"],
        esn=c["seq"] >> 32,
    )


for line in sys.stdin:
    c = json.loads(line)
    sa = association(c)
    try:
        if c.get("open"):
            out = sa.decrypt(ip(bytes.fromhex(c["open"])))
        else:
            out = sa.encrypt(ip(bytes.fromhex(c["seal"])), seq_num=c["seq"] & 0xFFFFFFFF)
        print(raw(out).hex(), flush=True)
    except Exception as e:
        print("%s: %s" % (type(e).__name__, e), flush=True)
