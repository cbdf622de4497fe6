package host

import (
	"strings"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// BootID is the kernel's number of this boot, the same in all containers of a host; "" if it is not known.
func BootID() string {
	b, err := procfs.Read("/proc/sys/kernel/random/boot_id", procfs.MaxFacts)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
