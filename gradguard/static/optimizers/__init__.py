"""Parameters and who trains them: modules, optimizers, their schedulers, and states of weights."""
