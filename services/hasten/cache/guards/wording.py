"""English grammar for the guards: small words, contractions, and ways of saying the same thing.

A word in no list has to match as it stands. Texts in other languages meet these lists hardly at all, so that they must
agree word for word: strict, never wrong.
"""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


NEUTRAL = words(
    """
    a an the this that these those there here it its of in on at by for with from to into onto about via per as
    and is are am was were be been being do does did done doing have has had having i me my mine myself we us our
    ours you your yours yourself what which who whom whose when where why how can could may might will would shall
    should must need needs needed any some if so then than because while please just kindly actually basically
    simply um uh er erm
    """
)
"""Grammar: carries no meaning that another guard does not look at."""

CONTRACTIONS = {
    "can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not", "cant": "can not",
    "wont": "will not", "dont": "do not", "doesnt": "does not", "didnt": "did not", "isnt": "is not",
    "arent": "are not", "wasnt": "was not", "werent": "were not", "hasnt": "has not", "havent": "have not",
    "couldnt": "could not", "shouldnt": "should not", "wouldnt": "would not", "whats": "what is",
    "wheres": "where is", "hows": "how is", "whos": "who is", "im": "i am", "ive": "i have", "let's": "let us",
    "ain't": "is not", "y'all": "you", "gonna": "going to", "wanna": "want to",
}  # fmt: skip
ENDINGS = {"n't": "not", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would", "'m": "am"}
IS_AFTER = words("what where who how when why that there it here he she")
"""Words after which 's means `is`; after all others it marks a possessor."""

FRAMES = {
    "is it possible to": "can i", "is it possible for me to": "can i", "would it be possible to": "can i",
    "is there a way to": "how do i", "is there any way to": "how do i", "what is the way to": "how do i",
    "what is a way to": "how do i", "what are the steps to": "how do i", "what are the steps for": "how do i",
    "what steps do i take to": "how do i", "what is the process for": "how do i",
    "what is the process to": "how do i", "what is the procedure for": "how do i", "what do i do to": "how do i",
    "what do i need to do to": "how do i", "what should i do to": "how do i", "what must i do to": "how do i",
    "what is the best way to": "how do i", "what is the easiest way to": "how do i", "tips on how to": "how do i",
    "what is a good way to": "how do i", "how to": "how do i", "how can i": "how do i", "how could i": "how do i",
    "how should i": "how do i",
    "how would i": "how do i", "how might i": "how do i", "how may i": "how do i", "how can we": "how do i",
    "how do we": "how do i", "how does one": "how do i",
    "how can one": "how do i", "how do i go about": "how do i", "how to go about": "how do i", "what time": "when",
    "at what time": "when", "what date": "when", "by what date": "when", "on what date": "when", "which date": "when",
    "how soon": "when", "how come": "why", "what is the reason": "why", "how much is": "what is price",
    "how much are": "what is price", "how much does it cost": "what is price", "what does it cost": "what is price",
    "how much do i pay": "what is price", "how much does": "what is price", "how much do": "what is price",
    "how much will": "what is price", "how much would": "what is price", "how long": "what duration",
    "how often": "what frequency", "how many": "what number", "how old": "what age", "how far": "what distance",
    "how big": "what size", "how large": "what size", "how tall": "what height", "sign up": "subscribe",
    "signing up": "subscribe", "sign in": "login", "signing in": "login", "log in": "login", "logging in": "login",
    "log into": "login", "log on": "login", "log out": "logout", "log off": "logout", "sign out": "logout",
    "set up": "setup", "setting up": "setup", "turn on": "enable", "switch on": "enable", "turn off": "disable",
    "switch off": "disable", "turning off": "disable", "turning on": "enable", "get rid of": "remove",
    "free of charge": "free", "at no cost": "free", "at no extra cost": "free", "for free": "free",
    "as well as": "and", "have to": "must to", "has to": "must to", "need to": "must to", "needs to": "must to",
    "in order to": "to", "due to": "because", "because of": "because", "come with": "include",
    "comes with": "include", "thanks in advance": "", "thank you in advance": "", "many thanks": "", "thank you": "",
    "wi fi": "wifi",
}  # fmt: skip
"""Ways of saying the same thing: the words on the left are read as those on the right, the longest first."""

OPENINGS = {
    "hi": "", "hello": "", "hey": "", "hiya": "", "hi there": "", "hello there": "", "good morning": "",
    "good afternoon": "", "good evening": "", "morning": "", "thanks": "", "cheers": "", "please": "", "so": "",
    "but": "", "and": "", "um": "", "uh": "", "er": "", "erm": "", "hmm": "", "ok": "", "okay": "", "well": "",
    "calculate": "what is", "compute": "what is", "work out": "what is", "sorry to bother you": "", "sorry": "",
    "excuse me": "", "quick question": "", "quick one": "", "silly question": "", "just wondering": "",
    "i was wondering if": "", "i was wondering": "", "i am wondering": "", "i wonder": "", "do you know": "",
    "can you tell me": "", "could you tell me": "", "can you please tell me": "", "could you please tell me": "",
    "please tell me": "", "tell me": "", "tell me the": "what is the",
    "can you tell me the": "what is the", "could you tell me the": "what is the",
    "please tell me the": "what is the", "i would like to know": "", "i want to know": "", "i need to know": "",
    "would you mind telling me": "", "i would like to": "how do i", "i want to": "how do i", "i wish to": "how do i",
    "i need to": "how do i", "i am trying to": "how do i", "help me": "how do i", "help me to": "how do i",
    "show me how to": "how do i", "tell me how to": "how do i", "can you show me how to": "how do i",
    "steps to": "how do i", "am i able to": "can i", "are we able to": "can i", "am i allowed to": "can i",
    "are we allowed to": "can i", "may i": "can i", "could i": "can i", "can we": "can i",
    "do i have to": "must i", "do i need to": "must i", "do we have to": "must i", "do we need to": "must i",
    "may i know": "", "does anyone know": "", "can anyone tell me": "", "i have heard that": "", "i heard that": "",
    "is that true": "", "is this true": "", "is it true that": "", "any idea": "", "any ideas": "", "any advice": "",
    "please help": "", "please advise": "", "please help me": "", "help please": "", "can you help": "",
    "do you have": "is there", "do you offer": "is there", "are there": "is there", "do i need": "must i",
}  # fmt: skip
"""Like `FRAMES`, but only where a clause begins; greetings and courtesies mean nothing."""
