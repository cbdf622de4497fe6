package record

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/metadata"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// addPCIeLink adds to a device what CUPTI does not know of it: the PCI address of the GPU with its UUID, and what the
// kernel says of the GPU's PCIe link below /proc and /sys of root. No driver of NVIDIA's is called. A number is 0 where
// the kernel does not tell it, and all is where the GPU cannot be found: without NVIDIA's part of /proc, as in some
// containers. A GPU without work may have lowered the generation; the largest ones are those that both ends of the link
// can do.
func addPCIeLink(d *tracelog.Device, root string) {
	if d.UUID == "" {
		return
	}
	gpus := metadata.GPUs(root)
	i := slices.IndexFunc(gpus, func(g metadata.GPU) bool { return g.UUID == d.UUID })
	if i < 0 {
		return
	}
	d.PCI = gpus[i].PCI
	device, err := filepath.EvalSymlinks(filepath.Join(root, "sys/bus/pci/devices", d.PCI))
	if err != nil {
		return
	}
	port := filepath.Dir(device) // the other end
	d.PCIeGeneration, d.PCIeWidth = pcieGeneration(device, "current_link_speed"), linkNumber(device, "current_link_width")
	d.PCIeMaxGeneration = leastKnown(pcieGeneration(device, "max_link_speed"), pcieGeneration(port, "max_link_speed"))
	d.PCIeMaxWidth = leastKnown(linkNumber(device, "max_link_width"), linkNumber(port, "max_link_width"))
}

// pcieGenerations are the PCIe generations by their rate, as /sys writes it: "32.0 GT/s PCIe".
var pcieGenerations = map[string]uint32{
	"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6, "128.0": 7,
}

func pcieGeneration(device, file string) uint32 {
	rate, _, _ := strings.Cut(linkText(device, file), " ")
	return pcieGenerations[rate]
}

func linkNumber(device, file string) uint32 {
	n, err := strconv.ParseUint(linkText(device, file), 10, 8) // 255 lanes are those of a device that does not answer
	if err != nil || n == 255 {
		return 0
	}
	return uint32(n)
}

func linkText(device, file string) string {
	text, err := os.ReadFile(filepath.Join(device, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// leastKnown is the lesser of two numbers, of which either may be unknown.
func leastKnown(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
