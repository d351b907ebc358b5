/* strftime_now. */
#ifndef CTI_TEXT_JINJA_CLOCK_H
#define CTI_TEXT_JINJA_CLOCK_H

#include "value.h"

/* The run's time in a format of strftime, with English names, as datetime.strftime of Python gives
 * it for a local time: without a zone. */
cti_jinja_value cti_jinja_strftime(cti_jinja_run *run, const cti_jinja_string *format);

#endif
