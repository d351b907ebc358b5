/* Losses of preferences: of two answers to a prompt, one is chosen and the other rejected. A batch
 * of B pairs has 2 B rows, first the chosen answers, then the rejected ones. log p is the
 * log-probability of a row's targets, which are the tokens of the answer.
 *
 *     DPO (arXiv:2305.18290)     s = beta ((log p - log q) of chosen - (log p - log q) of rejected)
 *                                loss = mean of -(1 - e) log sigmoid(s) - e log sigmoid(-s)
 *     ORPO (arXiv:2403.07691)    m = log p / tokens; o = m - log(1 - e^m)
 *                                loss = nll - beta mean of log sigmoid(o of chosen - o of rejected)
 *
 * q is the reference, the model before the training, e is label_smoothing, and nll is the mean
 * cross-entropy of prompts and chosen answers together. They are the losses of trl's DPOTrainer
 * (loss_type sigmoid; with label_smoothing the conservative DPO of its earlier versions) and
 * ORPOTrainer. */
#ifndef PROGRAMS_PREFERENCES_H
#define PROGRAMS_PREFERENCES_H

#include <cotangent/cotangent.h>

typedef struct {
    double beta, label_smoothing;
} preference_opts;

typedef struct {
    ct_tensor *loss;
    /* (B), without a gradient: beta (log p - log q), in ORPO beta m. The margin is their
     * difference, and a pair is right if it is positive */
    ct_tensor *chosen, *rejected;
} preference_loss;

/* Log-probabilities of rows of targets, (rows): those of a model with its gradient, without logits
 * in memory. A target of -100 does not count. */
ct_tensor *preference_log_p(ct_module *lm, ct_tensor *ids, ct_tensor *targets);

/* log_p and log_q are (2 B). NULL after an error in .loss. */
preference_loss preference_dpo(ct_tensor *log_p, ct_tensor *log_q, preference_opts opts);

/* The targets of an answer stand in `targets` (2 B, T), -100 elsewhere, and `next` has the next id
 * of every token, also of the prompt, and -100 for padding. */
preference_loss preference_orpo(ct_module *lm, ct_tensor *ids, ct_tensor *targets, ct_tensor *next,
                                preference_opts opts);

#endif
