"""What a word is: one for people, for doing, for a thing or a quality, or idle; by its stem."""

from functools import cache
from typing import Literal

from hasten.cache.guards.stems import stem
from hasten.cache.guards.wording import words

Class = Literal["person", "doing", "thing", "idle"]
_PEOPLE = words(
    """
    person people someone somebody anyone anybody everyone everybody nobody one resident tenant team staff crew family
    self employed employee employer client customer guest visitor kid child baby toddler teen teenager adult folk
    partner agent nonprofit pensioner senior
    man woman boy girl lady gentleman husband wife spouse fiance parent mother father mum mom dad son daughter brother
    sister sibling aunt uncle cousin nephew niece grandparent grandmother grandfather grandchild friend neighbour
    neighbor roommate flatmate colleague coworker boss manager supervisor director president owner founder landlord
    lodger buyer seller vendor merchant trader dealer supplier contractor freelancer consultant advisor adviser broker
    banker lender borrower debtor creditor investor shareholder cardholder policyholder beneficiary holder payer payee
    sender recipient subscriber member user admin administrator operator moderator developer programmer engineer
    designer tester architect analyst scientist researcher author writer editor reader publisher journalist artist
    musician singer actor dancer player coach athlete runner swimmer cyclist driver passenger pilot traveller traveler
    tourist commuter pedestrian rider teacher tutor professor student pupil graduate intern apprentice trainee
    beginner novice expert doctor physician nurse surgeon dentist pharmacist therapist patient midwife vet lawyer
    attorney solicitor judge notary witness officer policeman soldier veteran firefighter citizen immigrant refugee
    foreigner worker labourer laborer cleaner cook chef waiter barber hairdresser plumber electrician carpenter
    builder painter mechanic farmer gardener fisherman clerk secretary assistant receptionist cashier host hostess
    candidate applicant winner loser stranger volunteer leader
    """
)
_DOING = words(
    """
    accept access achieve act activate adapt add adjust admit adopt advise agree aim allow amend announce answer
    apologise appear apply appoint approve argue arrange arrive ask assemble assess assign assist attach attempt
    attend authorise avoid bake become beg begin behave believe belong bend bind bite blend blow boil boost borrow
    bother break breathe bring browse brush build burn bury buy calculate call cancel capture care carry catch
    celebrate change choose clarify clean clear click climb collect combine come commit compare compile complain
    complete compose compress compute confirm connect consider construct consume contact contain continue
    contribute control convert convince correct create cut debug decide declare decline decorate decrease define
    delay delete deliver deny depend deploy describe deserve destroy detect determine develop diagnose die dig
    disable disappear discard discover discuss distribute dive divide do donate download drag draw drive drop dry
    earn eat edit eliminate enable encourage enforce enjoy enrol enroll ensure enter erase escape establish
    estimate evaluate examine execute exist expand expect expire explain explore express extend extract fail fall
    fasten feel fetch fill find finish fix flip fly follow forbid forget forgive forward freeze gain gather
    generate give go grant grind grow handle hang happen hate have hear help hide hire hit hold hope hurt identify
    ignore imagine implement improve include increase indicate inform inherit insert inspect install insure
    integrate intend invest investigate invite involve join jump keep kill knit knock know lack last laugh launch
    lay lean learn leave lend let lift like listen live look lose love lower maintain make manage measure meet melt
    mend mention merge migrate miss mix modify move multiply mute need negotiate notify obtain occur operate oppose
    organise organize owe own participate pass paste pay peel perform permit persuade pick possess pour practise
    predict prefer prepare present preserve pretend prevent print proceed produce promote pronounce propose protect
    prove provide publish pull push put quit raise reach react read realise realize receive recharge recognise
    recommend recover recycle redeem reduce refer reflect refund refuse register reject relate relax release rely
    remain remember remind remove renew rent repair repeat replace reply represent rescue reset resign resist
    resolve respond restart restore restrict resume retire retrieve return reveal rinse rise rotate run save say
    scrub see seek seem select sell send separate serve set settle share shave shout shrink shut sing sit skip slip
    solve sort speak spend spill stand start stay steal stir stop strengthen stretch submit subscribe subtract
    succeed suffer suggest suppose survive suspend swap sweep swim switch take talk teach tear tell tend terminate
    thank thaw think throw tidy tow transfer transform translate transmit travel treat trust try tune turn
    understand undo unfreeze uninstall unlock unsubscribe upload use validate vary verify visit wait want warm warn
    wash wear weigh whisk win wipe wish withdraw worry wrap write
    """
)
"""What is a verb more often than a noun."""
_IDLE = words(
    """
    get way thing things process step steps procedure option kind type something also too still already else ever
    back right up out off over down possible available able much many long open close book reserve order request
    copy place time answer question help info information
    """
)
"""Words of which one more or less changes little."""


def kind(word: str) -> Class:
    """The class of a lower-case word; what is in no list is a thing."""
    made = stem(word)
    if word in _IDLE or made in _stems(_IDLE):
        return "idle"
    if made in _stems(_PEOPLE):
        return "person"
    return "doing" if made in _stems(_DOING) else "thing"


@cache
def _stems(known: frozenset[str]) -> frozenset[str]:
    return frozenset(map(stem, known))
