/* A libvirtd with this preloaded tells the versions in LIBVIRT_SAYS and QEMU_SAYS, if they are set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

static int told(const char *name, const char *option, void *connection, unsigned long *version)
{
    int (*real)(void *, unsigned long *) = dlsym(RTLD_NEXT, name);
    const char *said = getenv(option);
    int result = real(connection, version);
    if (result == 0 && said)
        *version = strtoul(said, 0, 10);
    return result;
}

int virConnectGetLibVersion(void *connection, unsigned long *version)
{
    return told("virConnectGetLibVersion", "LIBVIRT_SAYS", connection, version);
}

int virConnectGetVersion(void *connection, unsigned long *version)
{
    return told("virConnectGetVersion", "QEMU_SAYS", connection, version);
}
