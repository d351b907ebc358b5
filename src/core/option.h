/* Reads options in which 0 means a default. */
#ifndef CTI_CORE_OPTION_H
#define CTI_CORE_OPTION_H

#include <cotangent/types.h>

/* Returns 0 if the option is CT_ZERO, the default if it is 0, and otherwise the option. */
static inline double cti_option(double option, double by_default) {
    if (option == CT_ZERO) return 0;
    return option == 0 ? by_default : option;
}

#endif
