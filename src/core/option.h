/* How an option is read in which 0 stands for a default. */
#ifndef CTI_CORE_OPTION_H
#define CTI_CORE_OPTION_H

#include <cotangent/types.h>

/* 0 where the option is CT_ZERO, the default where it is 0, else the option itself. */
static inline double cti_option(double option, double by_default) {
    if (option == CT_ZERO) return 0;
    return option == 0 ? by_default : option;
}

#endif
