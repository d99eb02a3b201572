"""Words that say nothing of a subject: the closed word classes of English and German.

A closed class (articles, pronouns, prepositions, conjunctions, auxiliaries, particles) is one that a grammar
can list; Quirk et al., A Comprehensive Grammar of the English Language, 2.34, and Duden, Die Grammatik, name
them. Lists are written as `assets.indexing.lexical.plain_tokens` sees words: case-folded (`ß` as `ss`), and
cut at apostrophes, whose parts (`don't` -> `don`, `t`) are listed too, but for those that may be words of
their own (who won, vitamin D, T cells).

Whoever reads questions also passes over the words that only ask (`ASKING`); a text may be about them.
"""

from __future__ import annotations

_ENGLISH = {
    "articles and determiners": (
        "a an the this that these those each every either neither some any no all both few many much "
        "more most less least several such other another same own enough"
    ),
    "pronouns": (
        "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his "
        "himself she her hers herself it its itself they them their theirs themselves one ones who "
        "whom whose which what whatever whichever whoever there here"
    ),
    "auxiliaries": (
        "be am is are was were been being have has had having do does did doing done will would shall "
        "should can could may might must ought cannot"
    ),
    "prepositions": (
        "about above across after against along among around at before behind below beneath beside "
        "besides between beyond by despite down during except for from in inside into near of off on "
        "onto out outside over per since through throughout to toward towards under until up upon via "
        "with within without"
    ),
    "conjunctions": (
        "and but or nor so yet if because although though while whereas unless whether than as when "
        "where why how once"
    ),
    "particles and adverbs of no subject": (
        "not too very just only also then thus hence however again further now rather quite"
    ),
    "parts of contractions": (
        "s ll re ve don doesn didn isn aren wasn weren hasn haven hadn wouldn shouldn couldn mustn needn ain"
    ),
}
_GERMAN = {
    "articles and determiners": (
        "der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner "
        "keines dieser diese dieses diesen diesem dies jener jene jenes jenen jenem jeder jede jedes "
        "jeden jedem mancher manche manches manchen manchem solcher solche solches solchen solchem "
        "welcher welche welches welchen welchem alle alles allen aller allem einige einiges einigen "
        "einiger einigem viel viele vielen vieler wenig wenige wenigen andere anderer anderes anderen "
        "anderem beide beiden mehr"
    ),
    "pronouns": (
        "ich mich mir du dich dir er ihn ihm sie es wir uns ihr euch ihnen sich man etwas nichts wer "
        "wen wem wessen was mein meine meinen meinem meiner meines dein deine deinen deinem deiner "
        "deines sein seine seinen seinem seiner seines ihre ihren ihrem ihrer ihres unser unsere "
        "unseren unserem unserer unseres euer eure euren eurem eurer eures derselbe dieselbe dasselbe "
        "denselben demselben desselben dieselben deren dessen denen selbst"
    ),
    "auxiliaries": (
        "sein bin bist ist sind seid war warst waren wart gewesen haben habe hast hat habt hatte "
        "hatten hattest gehabt werden werde wirst wird werdet wurde wurden geworden worden würde "
        "würden kann kannst können könnt konnte konnten könnte könnten muss musst müssen müsst musste "
        "mussten müsste darf dürfen durfte dürfte soll sollst sollen sollte sollten will willst "
        "wollen wollte wollten mag mögen möchte wäre wären hätte hätten"
    ),
    "prepositions": (
        "ab an am ans auf aufs aus bei beim bis durch durchs für fürs gegen gegenüber hinter in im "
        "ins mit nach neben ohne seit trotz über um ums unter von vom vor während wegen zu zum zur "
        "zwischen"
    ),
    "conjunctions": (
        "und oder aber denn sondern doch dass ob wenn weil da obwohl damit indem nachdem bevor sobald "
        "sowie sowohl als wie wo wann warum wieso weshalb entweder weder noch falls je inwieweit wobei "
        "wofür woher wohin womit wovon"
    ),
    "particles and adverbs of no subject": (
        "nicht auch nur noch schon sehr so dann dort hier hin her nun jetzt immer wieder etwa zwar "
        "also dazu dabei davon darauf darin daran dafür dadurch dagegen daher daraus darum darüber davor "
        "einmal mal ja nein sonst gar"
    ),
}
FUNCTION_WORDS: dict[str, frozenset[str]] = {
    "english": frozenset(" ".join(_ENGLISH.values()).split()),
    "german": frozenset(" ".join(_GERMAN.values()).split()),
}
ASKING: dict[str, frozenset[str]] = {
    "english": frozenset(
        ("ever", "get", "give", "given", "let", "like", "often", "please", "suppose", "yes")
    ),
    "german": frozenset(("angenommen", "bitte", "einst", "gab", "ganz", "gibt", "ging", "kam", "weit")),
}
