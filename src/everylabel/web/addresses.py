"""Where things are on the server, and where requests come from."""

from ipaddress import IPv6Address, ip_address
from urllib.parse import quote


def image_url(item: str, digest: str) -> str:
    """Return where an instance's image is: another content, another address, whatever it is called."""
    return f"/api/image/{quote(item, safe='')}?content={digest}"


def network_of(address: str) -> str:
    """Return an address; of IPv6 the network, in which one machine may have any number of them."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or found.exploded[:19])  # a socket for both has IPv4 as ::ffff:192.0.2.7
    return address
