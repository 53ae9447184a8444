// The end of a training step: one thread decides, counts and records, all in device memory.
#pragma once

// The indices of the words in the array of counters, u32 [4].
#define POSITION 0
#define STEP 1
#define SLOT 2
#define HALTED 3

#define METHOD_SGD 0
#define METHOD_ADAM 1

// The constant settings of an optimiser.
struct Settings {
    double momentum_or_beta1, beta2, epsilon, decay;
    unsigned method, nesterov, decoupled, unused;
};

// The values that the update of one step uses, written by prepare_update. They are f32 because PyTorch multiplies by f32 values.
struct Step {
    float gradient;  // the factor of the gradients: the clipping factor divided by the loss scale
    float rate, momentum, decay;
    float size, root, first, keep_second, second, epsilon, shrink;
    unsigned is_first, skip;
};

// The rule of torch.amp.GradScaler: an overflow reduces the loss scale, and `interval` steps without an overflow increase it.
struct Scaler {
    float growth, backoff;
    unsigned interval, unused;
};

// The arguments of judge_and_prepare. Each pointer is to one element unless its comment says otherwise.
struct Verdict {
    Settings settings;
    unsigned* counters /* [4] */;
    const double* losses /* [slots] */;
    const unsigned* overflow /* or null */;
    unsigned* found /* or null: nothing is decided */;
    double* control /* [2]: learning rate, steps done */;
    const float* loss_scale /* or null */;
    const float* clip /* or null */;
    Step* step;
    unsigned long long withdraws /* 1 if the step was prepared earlier and is withdrawn if it must be skipped; else 0 */;
};

// The arguments of finish.
struct End {
    unsigned n, count, slots, unused;
    Scaler scaler;
    unsigned* counters /* [4] */;
    const unsigned* found /* [1] or null */;
    float* scale /* [1] or null */;
    unsigned* grown /* [1] or null: steps without an overflow */;
    const double* norm /* [1] or null */;
    unsigned* skipped /* [slots] */;
    float* scales /* [slots] */;
    double* norms /* [slots] */;
};

// The sizes must match the host's structs.
static_assert(sizeof(Settings) == 48 && sizeof(Step) == 52 && sizeof(Verdict) == 120 && sizeof(End) == 96, "no padding");

// Sets `found` if the step must not change the weights: if the loss of this or an earlier step is not finite, or if the norm kernel has
// found a gradient that is not finite.
__device__ __forceinline__ void judge(unsigned* counters /* [4] */, const double* losses /* [slots] */,
                                      const unsigned* overflow /* [1] or null */, unsigned* found /* [1] */) {
    if (!isfinite(losses[counters[SLOT]])) counters[HALTED] = 1;
    *found = counters[HALTED] || (overflow && *overflow);
}

// Computes the values of the step. A skipped step does not increase the number of steps.
__device__ __forceinline__ void prepare_update(const Settings& s, double* control /* [2] */, const unsigned* found /* [1] or null */,
                                               const float* loss_scale /* [1] or null */, const float* clip /* [1] or null */,
                                               Step* step /* [1] */) {
    if (found && *found) {
        step->skip = 1;
        return;
    }
    const double rate = control[0], count = control[1] + 1.0;
    control[1] = count;
    Step to = {};
    to.gradient = __fdiv_rn(clip ? *clip : 1.0f, loss_scale ? *loss_scale : 1.0f);
    to.rate = (float)rate;
    to.momentum = (float)s.momentum_or_beta1;
    to.decay = s.decoupled ? 0.0f : (float)s.decay;
    to.shrink = s.decoupled ? (float)__dadd_rn(1.0, -__dmul_rn(rate, s.decay)) : 1.0f;
    to.is_first = count == 1.0;
    if (s.method == METHOD_ADAM) {
        to.size = (float)(rate / (1.0 - pow(s.momentum_or_beta1, count)));
        to.root = (float)sqrt(1.0 - pow(s.beta2, count));
        to.first = (float)(1.0 - s.momentum_or_beta1);
        to.keep_second = (float)s.beta2;
        to.second = (float)(1.0 - s.beta2);
        to.epsilon = (float)s.epsilon;
    }
    *step = to;
}

// Withdraws a step that was prepared before all gradients were known: marks it as skipped and reduces the number of steps again.
__device__ __forceinline__ void withdraw_update(double* control /* [2] */, const unsigned* found /* [1] */, Step* step /* [1] */) {
    if (!*found || step->skip) return;
    step->skip = 1;
    control[1] -= 1.0;
}

__device__ __forceinline__ void judge_and_prepare(const Verdict& v) {
    if (!v.found) return;
    judge(v.counters, v.losses, v.overflow, v.found);
    if (v.withdraws) {
        withdraw_update(v.control, v.found, v.step);
    } else {
        prepare_update(v.settings, v.control, v.found, v.loss_scale, v.clip, v.step);
    }
}

// Updates the rings, the gradient scaler and the counters.
__device__ __forceinline__ void finish(const End& e) {
    const unsigned slot = e.counters[SLOT];
    const bool overflow = e.found && *e.found;
    e.skipped[slot] = overflow;
    e.scales[slot] = e.scale ? *e.scale : 1.0f;
    e.norms[slot] = e.norm ? *e.norm : 0.0;
    // A halted training run keeps its scale, because the cause is a loss that is not finite, not an overflow of gradients.
    if (e.scale && !e.counters[HALTED]) {
        if (overflow) {
            *e.scale *= e.scaler.backoff;
            *e.grown = 0;
        } else if (++*e.grown == e.scaler.interval) {
            const float larger = *e.scale * e.scaler.growth;
            if (isfinite(larger)) *e.scale = larger;
            *e.grown = 0;
        }
    }
    const unsigned position = e.counters[POSITION] + e.n;
    e.counters[POSITION] = position < e.count ? position : position - e.count;
    e.counters[STEP] += 1;
    e.counters[SLOT] = slot + 1 < e.slots ? slot + 1 : 0;
}
