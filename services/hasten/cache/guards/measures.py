"""Units and numbers in words."""

UNITS: dict[str, tuple[str, str]] = {
    "%": ("", "0.01"), "percent": ("", "0.01"), "percents": ("", "0.01"), "percentage": ("", "0.01"),
    "ms": ("s", "0.001"), "millisecond": ("s", "0.001"), "sec": ("s", "1"), "second": ("s", "1"), "min": ("s", "60"),
    "mins": ("s", "60"), "minute": ("s", "60"), "h": ("s", "3600"), "hr": ("s", "3600"), "hour": ("s", "3600"),
    "day": ("s", "86400"), "week": ("s", "604800"), "month": ("month", "1"), "year": ("month", "12"),
    "yr": ("month", "12"), "mg": ("g", "0.001"), "g": ("g", "1"), "gram": ("g", "1"), "kg": ("g", "1000"),
    "kilo": ("g", "1000"), "kilogram": ("g", "1000"), "lb": ("lb", "1"), "lbs": ("lb", "1"), "pound": ("lb", "1"),
    "oz": ("oz", "1"), "ounce": ("oz", "1"), "mm": ("m", "0.001"), "cm": ("m", "0.01"), "m": ("m", "1"),
    "metre": ("m", "1"), "meter": ("m", "1"), "km": ("m", "1000"), "kilometre": ("m", "1000"),
    "kilometer": ("m", "1000"), "mile": ("mile", "1"), "ft": ("ft", "1"), "foot": ("ft", "1"), "feet": ("ft", "1"),
    "inch": ("in", "1"), "ml": ("l", "0.001"), "l": ("l", "1"), "litre": ("l", "1"), "liter": ("l", "1"),
    "kb": ("byte", "1e3"), "mb": ("byte", "1e6"), "gb": ("byte", "1e9"), "tb": ("byte", "1e12"),
    "megabyte": ("byte", "1e6"), "gigabyte": ("byte", "1e9"), "$": ("usd", "1"), "usd": ("usd", "1"),
    "dollar": ("usd", "1"), "£": ("gbp", "1"), "gbp": ("gbp", "1"), "quid": ("gbp", "1"), "€": ("eur", "1"),
    "eur": ("eur", "1"), "euro": ("eur", "1"), "¥": ("jpy", "1"), "chf": ("chf", "1"), "nok": ("nok", "1"),
    "°c": ("celsius", "1"), "°f": ("fahrenheit", "1"), "w": ("w", "1"), "kw": ("w", "1000"), "mph": ("mph", "1"),
    "k": ("", "1000"), "thousand": ("", "1000"), "million": ("", "1000000"),
    "billion": ("", "1000000000"),
}  # fmt: skip
"""A unit's kind, and how many of that kind's base unit it is."""

NUMBER_WORDS: dict[str, str] = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "fourteen": "14",
    "fifteen": "15", "sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19", "twenty": "20",
    "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90",
    "twice": "2", "double": "2", "dozen": "12", "half": "0.5", "first": "1", "second": "2", "third": "3",
    "fourth": "4", "fifth": "5", "sixth": "6", "seventh": "7", "eighth": "8", "ninth": "9", "tenth": "10",
}  # fmt: skip
SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000}
