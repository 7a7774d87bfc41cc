"""Tamara: channels of topics and clusters that look for better clusters by themselves (sections 3 and 4).

How it works. Subscribers tell a channel's root when they come and go. When enough have, the root surveys a sample of
them down the tree, picks the channel most of them share, and proposes a merge to its root, which decides by cost with
its own numbers. A new topic or a lost interest is noticed to one cluster, whose root tosses a coin before it asks. What
is decided travels down the trees: a cluster's new topics, or an invitation into another cluster. A survey or merge
under way locks its channel; every update carries how many others led to it, so that avalanches end.
"""

from __future__ import annotations

from random import Random

from coterie.model import Topic, Workload
from coterie.protocol.events import Timer
from coterie.protocol.system import System, beats_on_trees_and_links
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import topic_key
from coterie.systems import scribe
from coterie.systems.scribe import pastry_overlay
from coterie.systems.tamara.bulk import CELLS_MAX, PAIRS_MAX
from coterie.systems.tamara.costs import toss_probability
from coterie.systems.tamara.decisions import absorb_change, add_change, merge_change, needed_shared, pair_change
from coterie.systems.tamara.messages import (
    ADAPTATION_MESSAGES,
    CLUSTER_MESSAGES,
    Advice,
    Answer,
    Consult,
    Invite,
    MergeVerdict,
    Notice,
    Propose,
    SubscriberMoved,
    Survey,
)
from coterie.systems.tamara.names import grown_name, is_cluster, next_version
from coterie.systems.tamara.parameters import TamaraParameters
from coterie.systems.tamara.rooted import OpenSurvey, RootedChannel, most_common, sample_probability
from coterie.systems.tamara.stages import ClusterStages, adaptive_channels, cluster_trees
from coterie.systems.tamara.subscriber import SLACK, SubscriberNode

GATHER_S = 1.0  # moves that come close together lead to one survey
ANSWERS_S = 2.0  # how long a survey waits


class TamaraNode(SubscriberNode):
    """The channels rooted at this node, on top of its subscriber."""

    def __init__(self, address: int, parameters: TamaraParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._rooted: dict[Topic, RootedChannel] = {}
        self._founded = 0

    # --- routing to roots and down trees ---

    def _ask(self, message: SystemMessage) -> None:
        """Hop by hop to the root of the channel the message is about, which acts on it."""
        channel = _addressee(message)
        towards = self.router.next_hop(topic_key(channel))
        if towards is not None:
            self.send(towards, message)
        elif isinstance(message, SubscriberMoved):
            self._on_moved(message)
        elif isinstance(message, Consult):
            self._on_consult(message)
        elif isinstance(message, Notice):
            self._on_notice(message)
        elif isinstance(message, Propose):
            self._on_propose(message)

    def _cast(self, message: Survey | Invite) -> None:
        group = self._groups.get(message.channel)
        if group is None:
            return
        self.send_all(group.children, message)
        if group.is_member and isinstance(message, Survey):
            self.on_survey(message)
        elif group.is_member and isinstance(message, Invite):
            self.on_invite(message)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, SubscriberMoved | Consult | Notice | Propose):
            self._ask(message)
        elif isinstance(message, Survey | Invite):
            group = self._groups.get(message.channel)
            if group is not None and group.parent == source:
                self._cast(message)
        elif isinstance(message, Answer):
            self.on_answer(message)
        elif isinstance(message, Advice):
            self.on_advice(message)
        elif isinstance(message, MergeVerdict):
            self._on_verdict(message)
        else:
            super().on_receive(source, message)

    def _root_of(self, channel: Topic) -> RootedChannel:
        return self._rooted.setdefault(channel, RootedChannel())

    # --- surveys ---

    def _on_moved(self, message: SubscriberMoved) -> None:
        channel = self._root_of(message.channel)
        channel.move(message.is_coming, message.depth)
        if message.depth < self._settings.depth_max and channel.is_due(self._settings.survey_share):
            self.set_timer(("gather", message.channel), GATHER_S)

    def _on_consult(self, message: Consult) -> None:
        clusters = self._carriers.get(message.topic, {})
        advice = Advice(message.topic, tuple((name, clusters[name][1]) for name in sorted(clusters)))
        if message.user == self.address:
            self.on_advice(advice)
        else:
            self.send(message.user, advice)

    def _on_notice(self, message: Notice) -> None:
        """Toss the coin, and ask the members about the topic if it wins (section 3.1)."""
        shape = self._shapes.get(message.cluster)
        channel = self._root_of(message.cluster)
        if shape is None or channel.survey is not None or (message.topic in shape[1]) != message.is_leaving:
            return
        needed = needed_shared(self._rate(message.topic), channel.size)
        if self.random.random() < toss_probability(self._settings.confidence, needed):
            self._open_survey(message.cluster, channel, (message.topic, message.is_leaving), 0)

    def _open_survey(
        self, name: Topic, channel: RootedChannel, question: tuple[Topic, bool] | None, depth: int
    ) -> None:
        channel.surveys += 1
        probability = sample_probability(self._settings.survey_size, channel.size)
        channel.survey = OpenSurvey(channel.surveys, probability, question, depth)
        self.set_timer(("answers", name), ANSWERS_S)
        self._cast(Survey(name, channel.surveys, self.address, probability))

    def on_answer(self, message: Answer) -> None:
        channel = self._rooted.get(message.channel)
        if channel is not None and channel.survey is not None and channel.survey.number == message.number:
            channel.survey.answers.append(message)

    def on_timer(self, timer: Timer) -> None:
        kind = timer[0] if isinstance(timer, tuple) else timer
        if kind == "gather":
            assert isinstance(timer, tuple)
            channel = self._root_of(timer[1])
            if self._is_root(timer[1]) and channel.is_due(self._settings.survey_share):
                depth, channel.moves, channel.depth = channel.depth, 0, 0
                self._open_survey(timer[1], channel, None, depth + 1)
        elif kind == "answers":
            assert isinstance(timer, tuple)
            self._close_survey(timer[1])
        else:
            super().on_timer(timer)

    def _close_survey(self, name: Topic) -> None:
        channel = self._root_of(name)
        survey, channel.survey = channel.survey, None
        if survey is None or not survey.answers:
            if survey is not None and survey.probability == 1.0:
                channel.size = 0.0
            return
        if survey.probability == 1.0:
            channel.size = float(len(survey.answers))
        if survey.question is not None:
            self._reconsider(str(name), channel, survey, *survey.question)
        elif not channel.is_locked(self.now_s) and self._settings.is_adaptive:
            self._look_for_partner(name, channel, survey)

    def _reconsider(
        self, name: str, channel: RootedChannel, survey: OpenSurvey, topic: Topic, is_leaving: bool
    ) -> None:
        """Add the topic, or remove it, if the members' answers say so."""
        if name not in self._shapes or channel.is_locked(self.now_s) or not self._settings.is_adaptive:
            return
        topics = self._shapes[name][1]
        hits = sum(1 for answer in survey.answers if topic in (answer.needed if is_leaving else answer.channels))
        shared = hits / len(survey.answers) * channel.size
        change = add_change(self._rate(topic), channel.size, shared)
        if is_leaving and topic in topics and change > SLACK:
            rest = tuple(other for other in topics if other != topic)
            self._reshape(name, rest if len(rest) > 1 else ())
        elif not is_leaving and topic not in topics and change < -SLACK:
            self._reshape(name, (*topics, topic))

    # --- merges ---

    def _look_for_partner(self, name: Topic, channel: RootedChannel, survey: OpenSurvey) -> None:
        """Propose a merge to the channel that most subscribers share (section 3.2)."""
        partner = most_common(survey.answers, name)
        if partner is None:
            return
        own = self._shapes[str(name)][1] if is_cluster(name) and name in self._shapes else (name,)
        topics = tuple((topic, self._rate(topic)) for topic in own)
        shared = partner[1] / len(survey.answers) * channel.size
        channel.lock(self.now_s)
        self._ask(Propose(partner[0], name, self.address, topics, channel.size, shared, survey.depth))

    def _on_propose(self, message: Propose) -> None:
        for topic, rate in message.topics:
            self._rates.setdefault(topic, rate)
        outcome = self._accept(message)
        verdict = MergeVerdict(message.proposer, *(outcome or ("", (), 0)), message.depth)
        if message.root == self.address:
            self._on_verdict(verdict)
        else:
            self.send(message.root, verdict)

    def _accept(self, message: Propose) -> tuple[str, tuple[Topic, ...], int] | None:
        """Where the proposer's subscribers shall go; None if everything stays."""
        channel = self._root_of(message.channel)
        if channel.is_locked(self.now_s) and not _is_first(message):
            return None
        theirs = tuple(topic for topic, _ in message.topics)
        shared = min(message.shared, channel.size)
        if is_cluster(message.channel):
            return self._accept_into(str(message.channel), channel, message, theirs, shared)
        if is_cluster(message.proposer):
            return self._join_cluster(message, channel, theirs, shared)
        own = self._rate(message.channel), channel.size
        if pair_change(self._rate(theirs[0]), own[0], message.size, own[1], shared) >= -SLACK:
            return None
        self._founded += 1
        name, topics = grown_name(self.address, self._founded), (*theirs, message.channel)
        version = next_version(0, topics)
        channel.lock(self.now_s)
        self._cast(Invite(message.channel, name, topics, version, message.depth))
        return name, topics, version

    def _join_cluster(
        self, message: Propose, channel: RootedChannel, theirs: tuple[Topic, ...], shared: float
    ) -> tuple[str, tuple[Topic, ...], int] | None:
        """A cluster asks this topic in: with all its subscribers, or only for those who are on both."""
        topic, name = message.channel, str(message.proposer)
        if topic in theirs:
            return None
        absorbing = absorb_change(self._rate(topic), channel.size, message.size, shared, self._cluster_rate(theirs))
        adding = add_change(self._rate(topic), message.size, shared)
        if min(absorbing, adding) >= -SLACK:
            return None
        grown = (*theirs, topic)
        if absorbing < adding:
            channel.lock(self.now_s)
            self._cast(Invite(topic, name, grown, 0, message.depth))
        return name, grown, 0

    def _accept_into(
        self, name: str, channel: RootedChannel, message: Propose, theirs: tuple[Topic, ...], shared: float
    ) -> tuple[str, tuple[Topic, ...], int] | None:
        if name not in self._shapes:
            return None
        topics = self._shapes[name][1]
        fresh = tuple(topic for topic in theirs if topic not in topics)
        own_rate = self._cluster_rate(topics)
        if is_cluster(message.proposer):
            common = tuple(topic for topic in theirs if topic in topics)
            rates = self._cluster_rate(theirs), own_rate, self._cluster_rate(common)
            if merge_change(message.size, channel.size, shared, *rates, len(common)) >= -SLACK:
                return None
        elif not fresh:
            return None
        else:
            rate = self._rate(theirs[0])
            absorbing = absorb_change(rate, message.size, channel.size, shared, own_rate)
            adding = add_change(rate, channel.size, shared)
            if min(absorbing, adding) >= -SLACK:
                return None
            if adding <= absorbing:
                self._reshape(name, (*topics, *fresh))
                return None
        channel.lock(self.now_s)
        self._reshape(name, (*topics, *fresh))
        return name, (*topics, *fresh), self._shapes[name][0]

    def _reshape(self, name: str, topics: tuple[Topic, ...]) -> None:
        self._shape(name, next_version(self._shapes[name][0], topics), topics)

    def _on_verdict(self, message: MergeVerdict) -> None:
        channel = self._root_of(message.channel)
        channel.unlock()
        if message.cluster and message.cluster != message.channel:
            self._cast(Invite(message.channel, message.cluster, message.topics, message.version, message.depth))
        elif message.cluster in self._shapes:
            own = self._shapes[message.cluster][1]
            self._reshape(message.cluster, (*own, *(topic for topic in message.topics if topic not in own)))

    def _keep_trees(self) -> None:
        super()._keep_trees()
        for name in [name for name in self._rooted if name not in self._groups or not self._is_root(name)]:
            del self._rooted[name]


def _addressee(message: SystemMessage) -> Topic:
    if isinstance(message, Consult):
        return message.topic
    if isinstance(message, Notice):
        return message.cluster
    assert isinstance(message, SubscriberMoved | Propose)
    return message.channel


def _is_first(message: Propose) -> bool:
    """Of two channels that propose to each other at the same time, the one whose name sorts first may."""
    return str(message.proposer) < str(message.channel)


def fits(workload: Workload) -> bool:
    """Whether the bulk form has room for it and would end in minutes; the planner takes what is larger."""
    cells = workload.node_count * workload.topic_count
    return cells <= CELLS_MAX and workload.interests.pair_count <= PAIRS_MAX


SYSTEM = System(
    name="tamara",
    title="Tamara: topic-clusters that adapt by themselves, over Scribe",
    paper="Milo, Zur, Verbin, SIGMOD 2007",
    parameters=TamaraParameters,
    stages=ClusterStages(
        channels=adaptive_channels,
        overlay=pastry_overlay,
        trees=cluster_trees,
        upkeep=beats_on_trees_and_links,
    ),
    node=TamaraNode,
    messages=(*scribe.SYSTEM.messages, *CLUSTER_MESSAGES, *ADAPTATION_MESSAGES),
    fits=fits,
)
