"""Damaged files for Hypothesis, as crashes, bad disks and careless edits leave them."""

from hypothesis import strategies as st

ODD = (
    b"\0",
    b'"',
    b"\n",
    b"\r",
    b"[",
    b"{",
    b"\xff",
    b"1e999",
    b",",
    b"null",
    b"\xed\xa0\x80",
    b"NaN",
    b"9" * 50,
)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with some bits flipped, and bytes lost, inserted or doubled."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        what, at = (
            draw(st.sampled_from(["flip", "cut", "put in", "lose", "double"])),
            draw(st.integers(0, len(data))),
        )
        if what == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif what == "cut":
            del data[at:]
        elif what == "put in":
            data[at:at] = draw(st.sampled_from(ODD))
        elif what == "lose":
            del data[at : at + draw(st.integers(1, 20))]
        elif what == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 40))]
    return bytes(data)
