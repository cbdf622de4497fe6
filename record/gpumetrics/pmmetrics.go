package gpumetrics

import (
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The rates of PM sampling, in samples a second.
const (
	RateMin     = 100 // the hardware's longest interval is 10 ms
	RateDefault = 1000
	RateMax     = 10000
)

// CheckRate says why a rate cannot be had.
func CheckRate(rate int) error {
	switch {
	case rate < RateMin:
		return fmt.Errorf("must be %d Hz or more: the GPU's timer counts to 10 ms", RateMin)
	case rate > RateMax:
		return fmt.Errorf("must be %d Hz or less: CUPTI takes up to 60 µs of processor time for a sample, so that more "+
			"could not be decoded", RateMax)
	}
	return nil
}

// defaults are the metrics that are sampled unless a person names others. They fit one pass; those of NVLink
// are left out where there is no link.
var defaults = []metric.Metric{
	{Name: metric.NameSMClockPM, Label: "SM clock"},
	{Name: metric.NameGPUActive, Label: "GPU active"},
	{Name: metric.NameComputeActive, Label: "Compute active"},
	{Name: metric.NameSMActive, Label: "SM active"},
	{Name: metric.NameSMIssue, Label: "SM issue"},
	{Name: metric.NameTensor, Label: "Tensor active"},
	{Name: metric.NameOccupancy, Label: "SM occupancy"},
	{Name: metric.NameDRAMRead, Label: "DRAM read"},
	{Name: metric.NameDRAMWrite, Label: "DRAM written"},
	{Name: metric.NameL2, Label: "L2 throughput"},
	{Name: metric.NamePCIeRead, Label: "PCIe to GPU"},
	{Name: metric.NamePCIeWrite, Label: "PCIe to host"},
	{Name: metric.NameNVLinkRx, Label: "NVLink received"},
	{Name: metric.NameNVLinkTx, Label: "NVLink sent"},
}

// DefaultMetrics are the names of the metrics that are sampled unless a person names others.
var DefaultMetrics = func() (names []string) {
	for _, m := range defaults {
		names = append(names, m.Name)
	}
	return names
}()

// Default reports whether the default set has a metric, whatever is asked of it, and returns the name in the set.
func Default(name string) (string, bool) {
	for _, d := range DefaultMetrics {
		if baseOf(d) == baseOf(name) {
			return d, true
		}
	}
	return name, false
}

// baseOf is a name without what is asked of the metric.
func baseOf(name string) string {
	unit := strings.Index(name, "__")
	if end := strings.Index(name[max(unit, 0):], "."); end >= 0 {
		return name[:max(unit, 0)+end]
	}
	return name
}

// ends are the endings of names, with what they say of the values.
var ends = []struct {
	end  string
	unit metric.Unit
	kind metric.Kind
}{
	{".pct_of_peak_sustained_elapsed", metric.Percent, metric.Percentage},
	{".pct_of_peak_sustained_active", metric.Percent, metric.Percentage},
	{".pct", metric.Percent, metric.Percentage},
	{".per_second", metric.CountPerSec, metric.Rate},
	{".sum", metric.Count, metric.Rate},
	{".avg", metric.Count, metric.Rate},
	{".min", metric.Count, metric.Rate},
	{".max", metric.Count, metric.Rate},
	{".ratio", metric.Count, metric.Level},
	{".max_rate", metric.Count, metric.Level},
	{".per_cycle_active", metric.Count, metric.Level},
	{".per_cycle_elapsed", metric.Count, metric.Level},
}

// pmMetric is the metric of a name. Its kind follows from the name's end, as NVIDIA forms names.
func pmMetric(name string) (metric.Metric, bool) {
	m := metric.Metric{Name: name, Label: name}
	for _, d := range defaults {
		if d.Name == name {
			m.Label = d.Label
		}
	}
	for _, e := range ends {
		if !strings.HasSuffix(name, e.end) {
			continue
		}
		m.Unit, m.Kind = e.unit, e.kind
		switch bytes := strings.Contains(name, "_bytes"); {
		case bytes && m.Unit == metric.CountPerSec:
			m.Unit = metric.BytesPerSec
		case bytes && m.Unit == metric.Count && m.Kind == metric.Rate:
			m.Unit = metric.Bytes
		case m.Unit == metric.CountPerSec && strings.HasSuffix(baseOf(name), "__cycles_elapsed") &&
			!strings.Contains(name, ".sum."):
			m.Unit = metric.Hertz
		}
		if m.Kind == metric.Level {
			m.Scale = 1000
		}
		return m, true
	}
	return m, false
}

// CheckMetrics says why metrics cannot be sampled, as far as their names tell.
func CheckMetrics(names []string) error {
	if len(names) > tracelog.MaxMetrics {
		return fmt.Errorf("%d metrics: at most %d are sampled together", len(names), tracelog.MaxMetrics)
	}
	seen := map[string]bool{}
	for _, name := range names {
		_, ok := pmMetric(name)
		switch {
		case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") != "" ||
			len(name) >= nameSize || name == "":
			return fmt.Errorf("%q is no name of a metric", name)
		case !ok:
			return fmt.Errorf("%q does not say what is asked of the metric: add an ending like "+
				".avg.pct_of_peak_sustained_elapsed or .sum.per_second; 'cudatrace probes --gpu-metrics' lists names", name)
		case seen[name]:
			return fmt.Errorf("%s is named twice", name)
		}
		seen[name] = true
	}
	return nil
}
