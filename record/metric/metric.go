// Package metric has the words of sampled metrics: sources, units, kinds of value, and the stored
// numbers that stand for values in a log. It knows neither logs nor GPUs.
package metric

// A Source is who measured a set of metrics. Numbers are in logs: never reuse one.
type Source uint32

// The sources.
const (
	NVML Source = 1 // the driver's management library, a value every 20 to 200 ms
	GPM  Source = 2 // NVML's GPU performance metrics, a value every 100 ms (Hopper and later)
	PM   Source = 3 // CUPTI's PM sampling, up to 10 kHz
	Host Source = 4 // /proc, for a process
)

// A Unit is the unit of a value. Numbers are in logs: never reuse one.
type Unit uint32

// The units.
const (
	Percent      Unit = 1
	Bytes        Unit = 2
	BytesPerSec  Unit = 3
	Hertz        Unit = 4
	Watt         Unit = 5
	Celsius      Unit = 6
	Count        Unit = 7
	CountPerSec  Unit = 8
	Nanoseconds  Unit = 9
	BitsOfReason Unit = 10 // Reason
)

// A Kind says what a value is, and so how exactly a log keeps it. Numbers are in logs: never reuse
// one.
type Kind uint32

// The kinds of value.
const (
	Percentage Kind = 1 // of a peak, or of time: to 0.01 %; never negative
	Rate       Kind = 2 // an amount a second: to 0.1 % of the value; never negative
	Level      Kind = 3 // what a sensor or a counter shows: exact to a step of 1/scale
	Bits       Kind = 4 // a set of flags, below 2^53
)

var (
	sources = [...]string{NVML: "nvml", GPM: "gpm", PM: "pm", Host: "host"}
	units   = [...]string{
		Percent: "%", Bytes: "B", BytesPerSec: "B/s", Hertz: "Hz", Watt: "W", Celsius: "°C",
		Count: "count", CountPerSec: "/s", Nanoseconds: "ns", BitsOfReason: "bits",
	}
	kinds = [...]string{Percentage: "percentage", Rate: "rate", Level: "level", Bits: "bits"}
)

// String is the source's name, "" for one that this version does not know.
func (s Source) String() string { return nameOf(sources[:], uint32(s)) }

// String is the unit's sign, "" for one that this version does not know.
func (u Unit) String() string { return nameOf(units[:], uint32(u)) }

// String is the kind's name, "" for one that this version does not know.
func (k Kind) String() string { return nameOf(kinds[:], uint32(k)) }

func nameOf(names []string, n uint32) string {
	if n < uint32(len(names)) {
		return names[n]
	}
	return ""
}

// A Metric describes the values of one metric.
type Metric struct {
	Name  string // as its source names it: "sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "power"
	Label string // for people: "SM active"
	Unit  Unit
	Kind  Kind
	Scale uint64 // steps of a Level in a unit: 1000 keeps watts to the milliwatt; 0 is 1
}
