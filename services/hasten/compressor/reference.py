"""Tells whether a sentence leans on the one before it: it opens with a word that stands for something said there."""

import re

_OPENS = (
    r"(?:(?:and|but|so|or|then|yet|still|also|thus|hence)[, ]+)?(?:it|its|it['’]s|this|these|those|that"
    r"|they|their|them|he|she|his|her"
    r"|such|both|neither|either|otherwise|therefore|thus|hence|if so|if not|in that case|in this case"
    r"|the (?:latter|former|same|other|others|two|second|first)|one of (?:them|these|those)"
    r"|dies|diese[rsmn]?|dieses|dabei|dafür|damit|danach|deshalb|sonst|andernfalls|letzterer?|ersterer?"
    r"|cela|celui-ci|celle-ci|ceux-ci|ils|elles|sinon|esto|estos|estas|ellos|ellas)\b"
    r"|(?:yes|no|ja|nein|oui|non|sí)[.,!]"
    r"|これ|それ|その|この|彼|彼女|这|該|该|它|他们|他|她"
)
_LEANS = re.compile(_OPENS, re.IGNORECASE)


def leans(text: str) -> bool:
    """Whether the sentence opens with a pronoun, "the latter", "otherwise", a bare yes or no, and the like."""
    return bool(_LEANS.match(text))
