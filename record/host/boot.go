package host

import (
	"os"
	"strings"
)

// BootID is the kernel's number of this boot, the same in all containers of a host; "" if it is not known.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
