"""Describe the stored results of one suite in words: title, chance, explained networks and levels."""

from collections.abc import Sequence
from functools import cached_property

from roarbench.analysis.result_checks import describe_chance, describe_networks_at_chance, describe_reference_accuracy
from roarbench.analysis.stored_results import StoredResults
from roarbench.common.enums import Unit
from roarbench.common.text import join_with_and
from roarbench.plan.protocols import Protocol

ONLY_TESTS_INSTALLATION = "tests the installation only"  # title of a board whose networks are at chance


class SuiteResults(StoredResults):
    """Stored results of one suite on one version of its data, with texts about them."""

    @cached_property
    def title(self) -> str:
        """Return the suite's title with its deviations: fewer or other images, other networks, networks at chance."""
        small = (f"small version: {self.limit} images per split",) if self.limit else ()
        void = (ONLY_TESTS_INSTALLATION,) if self.at_chance_warning else ()
        return " ".join([self.suite.title, *(f"({words})" for words in (*small, *self.title_parts, *void))])

    @property
    def chance_text(self) -> str:
        """Return chance in percent, with a note if one class is more frequent than others or if labels are unknown."""
        text = describe_chance(self.chance, self.suite.dataset_record.classes)
        return f"at least {text} (labels unknown)" if self.known_chance is None else text

    @cached_property
    def at_chance_warning(self) -> str:
        """Return a sentence saying that the networks are at chance, or an empty string if they are above chance.

        At chance, no number of a board has a meaning. The test uses the networks of the headline protocol, and treats
        their mean accuracy on untouched images as the accuracy of one network.
        """
        untouched = self._untouched_results_of_headline_protocol
        return describe_networks_at_chance(untouched, self.chance, self.chance_text)

    @property
    def reference_accuracy_text(self) -> str:
        """Describe the accuracies of the explained networks, and whether one is near chance; empty if unknown."""
        references = [self.references[number] for number in sorted(self.references)]
        known = self.reference_accuracy is not None
        return describe_reference_accuracy(references, self.chance, self.chance_text) if known else ""

    def describe_included_levels(self, protocol: Protocol, unit: Unit, levels: Sequence[float]) -> str:
        """Return levels in words, such as `at 90 %`; empty if no level of the suite is left out."""
        if not self.list_suite_levels_not_in(protocol, unit, levels):
            return ""
        return f"at {join_with_and(f'{100 * t:g} %' for t in levels)}"
