"""The group `kl`: estimators of KL(pi_theta || pi_reference) from one sampled token (Schulman 2020).

They are added to the loss and differentiated as they stand, unweighted by the ratio, as Shao et al. (2024) do. All
expectations are over tokens that pi_theta sampled; for rollouts of an earlier policy they are approximations.

Shapes: A trained tokens.
"""

from torch import Tensor


class K1:
    """d = log pi_theta - log pi_reference. It is unbiased and may be negative.

    Its gradient does not depend on the reference and is zero on average: as a penalty it adds noise and does not hold
    the policy back. It is here to be compared with.
    """

    def __call__(self, logprobs_A: Tensor, reference_A: Tensor) -> Tensor:
        """The estimate, [A]."""
        return logprobs_A - reference_A


class K2:
    """d^2 / 2. It is biased, but its gradient is on average that of the KL."""

    def __call__(self, logprobs_A: Tensor, reference_A: Tensor) -> Tensor:
        """The estimate, [A]."""
        return (logprobs_A - reference_A).square() / 2


class K3:
    """exp(-d) - 1 + d, GRPO's own (Shao et al. 2024). It is unbiased and not negative."""

    def __call__(self, logprobs_A: Tensor, reference_A: Tensor) -> Tensor:
        """The estimate, [A]."""
        d_A = reference_A - logprobs_A
        return d_A.exp() - d_A - 1
