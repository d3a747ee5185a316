"""Which English words may stand for one another, and which turn a question round; by stem."""

from hasten.cache.guards.stems import stem


def _groups(text: str) -> dict[str, str]:
    """The stem of each word of a line to the stem of that line's first word."""
    rows = [line.split() for line in text.split("|")]
    return {stem(word): stem(row[0]) for row in rows for word in row}


def _pairs(text: str) -> frozenset[frozenset[str]]:
    """The canonical stems of the two words of each line."""
    rows = [[stem(word) for word in line.split()] for line in text.split("|")]
    return frozenset(frozenset(SYNONYMS.get(word, word) for word in row) for row in rows)


SYNONYMS = _groups(
    """
    buy purchase | price cost charge fee | start begin commence | end finish terminate | cancel cancellation | change
    update modify edit alter amend | delete remove erase | fix repair mend | help assist assistance | problem issue
    trouble | receive get obtain | send submit | request ask | show display | choose select pick | allow permit
    allowed permitted | include contain comprise | explain describe | create make | find locate | keep retain | car
    vehicle automobile | child kid children | mobile cellphone cell smartphone | photo picture image | quick fast
    rapid | big large | small little | doctor physician | film movie | holiday vacation | luggage baggage | shop store
    | street road | agent agency | mute silence | boss employer | salary wage wages | flat apartment | lorry truck |
    rubbish trash garbage | lift elevator | pharmacy chemist drugstore | tv television telly | fridge refrigerator |
    vaccine vaccination jab | mother mum mom | father dad | bike bicycle | motorbike motorcycle | plane aeroplane
    airplane | taxi cab | ill sick | sofa couch | jail prison | lawyer solicitor attorney | advert ad advertisement |
    university uni | discount reduction | faulty defective broken | postpone defer delay | dispute challenge contest |
    recover retrieve | shut close | reserve reservation | apply application | complain complaint |
    telephone phone | refund reimbursement reimburse | bill invoice | document paperwork |
    advantage benefit upside | drawback disadvantage downside | renew renewal | replace replacement substitute
    | transfer move | deliver delivery | pay payment | install installation | register registration enrol enroll
    sign-up | approve approval | confirm confirmation | activate activation | wait waiting | maximum max | minimum min
    | information info detail | employee staff | company firm | annual yearly | duration
    time
    """
)
"""Words that stand for one another in a question, by stem. Only what is safe in any trade."""


OPPOSITES = _pairs(
    """
    subscribe unsubscribe | subscribe cancel | subscribe stop | enable disable | begin end | begin stop | begin cancel
    | end continue | stop continue | start stop | open close | open shut | opened closed | lock unlock | mute unmute |
    add remove | add delete | add subtract | create delete | insert remove | install uninstall | upgrade downgrade |
    increase decrease | increase reduce | increase lower | raise lower | raise reduce | raise drop | grow shrink |
    expand shrink | accept reject | accept decline | accept refuse | approve reject | approve deny | approve decline |
    allow forbid | allow deny | allow prohibit | allow block | allow ban | grant revoke | grant deny | include exclude
    | buy sell | borrow lend | deposit withdraw | credit debit | send receive | push pull | upload download | import
    export | encrypt decrypt | encode decode | compress decompress | connect disconnect | attach detach | join leave |
    enter leave | enter exit | arrive depart | arrive leave | arrival departure | check uncheck | hide show | show
    hide | lose find | win lose | pass fail | succeed fail | success failure | freeze unfreeze | activate deactivate |
    activate cancel | login logout | block unblock | pause resume | pay refund | hire fire | eat avoid | use avoid |
    take avoid | do avoid | more less | more fewer | most least | maximum minimum | best worst | better worse | good
    bad | high low | higher lower | highest lowest | long short | longer shorter | big small | large small | early
    late | earlier later | earliest latest | first last | before after | within after | above below | over under | up
    down | on off | in out | inside outside | with without | hot cold | warm cold | wet dry | safe dangerous | safe
    unsafe | legal illegal | true false | right wrong | right left | new old | old young | fast slow | quick slow |
    easy hard | easy difficult | cheap expensive | light dark | light heavy | full empty | full part | public private
    | internal external | domestic international | incoming outgoing | inbound outbound | male female | man woman |
    men women | mother father | son daughter | adult child | buyer seller | employer employee | landlord tenant |
    lender borrower | teacher student | advantage drawback | benefit risk | pro con | profit loss | gain lose | gain
    loss | asset liability | winter summer | day night | morning evening | am pm | always never | same different |
    alive dead | single married | single double | optional mandatory | required optional | temporary permanent | spicy
    mild | online offline
    """
)
"""Pairs that turn a question round."""

PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "de", "anti", "mis", "over", "under", "re", "pre", "post")
"""A word and the same word with one of these before it are opposites, or at least different."""

CONFUSABLE = _pairs(
    """
    county country | through though | thorough through | statue statute | patent patient | excited exited | lighting
    lightning | desert dessert | sever server | casual causal | martial marital | trial trail | quiet quite | angel
    angle | diary dairy | united untied | scared sacred | barley barely | board broad | silver sliver | dinner diner |
    later latter | loose lose | planned planed | friend fiend | conversation conservation | personal personnel
    """
)
"""Two words, not one word and its misspelling."""

CAPITALISED = frozenset({"polish", "turkey", "china", "march", "august", "reading", "nice", "bath"})
"""Words that a capital makes another word."""
