/* cotangent: tensors, reverse-mode differentiation and transformers for C, on the CPU. This header
 * includes all headers of the library. */
#ifndef CT_COTANGENT_H
#define CT_COTANGENT_H

#include <cotangent/types.h>
#include <cotangent/context.h>
#include <cotangent/scope.h>
#include <cotangent/tensor.h>
#include <cotangent/autograd.h>
#include <cotangent/gradcheck.h>
#include <cotangent/ops.h>
#include <cotangent/init.h>
#include <cotangent/nn.h>
#include <cotangent/optim.h>
#include <cotangent/dist.h>
#include <cotangent/io.h>
#include <cotangent/tokens.h>
#include <cotangent/tokenizer.h>
#include <cotangent/models.h>
#include <cotangent/profile.h>

#endif
