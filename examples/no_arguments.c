/* The main of the small programs that take no arguments (mha, custom_op, ...). They are compiled
 * with -Dmain=example_main, so that their own files show nothing but the library: here --help and
 * --version are answered, and any argument is refused. */
#include "../programs/common.h"

int example_main(void);

int main(int argc, char **argv) {
    static const char usage[] = "\n\nAn example without arguments. The comments of its file, in "
                                "examples/, say what it shows.";
    if (read_flags(argc, argv, NULL, 0, usage)) fail_usage("takes no arguments, not %s", argv[1]);
    return example_main();
}
