package perfetto

import (
	"math"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// The trace processor reads GPU counters with their units, groups and GPUs, and shows each value for
// the time before its packet.
func TestGPUCounters(t *testing.T) {
	t.Parallel()
	const u = int64(uptime)
	none := math.NaN()
	tr := tptest.Open(t, save(t, sampleOptions(), func(w *Writer) {
		w.GPUs([]GPU{{ID: 0, Name: "first"}, {ID: 1, Name: "second"}})
		pm := w.GPUCounters(GPUCounterInfo{GPU: 0, Group: "PM sampling", Interval: 1000, Counters: []GPUCounter{
			{Name: "SM active", Description: "sm__cycles_active", Unit: GPUPercent}, {Name: "DRAM read", Unit: GPUBytesPerSecond},
		}})
		other := w.GPUCounters(GPUCounterInfo{GPU: 1, Group: "PM sampling", Interval: 1000, Counters: []GPUCounter{{Name: "SM active", Unit: GPUPercent}}})
		nvml := w.GPUCounters(GPUCounterInfo{GPU: 0, Group: "NVML", Interval: 100_000, Counters: []GPUCounter{{Name: "Power (NVML)", Unit: GPUWatts}}})
		pm.Values(uptime, []float64{0, 0})
		pm.Values(uptime+1000, []float64{97.5, 2e12})
		pm.Values(uptime+2000, []float64{50, none})
		pm.Values(uptime+3000, []float64{0, 0})
		other.Values(uptime, []float64{0})
		other.Values(uptime+1000, []float64{12.25})
		nvml.Values(uptime, []float64{0})
		nvml.Values(uptime+1000, []float64{312.5})
	}))
	tptest.NoErrors(t, tr)
	rows(t, tr, `select gpu_id, k.name, unit, ts, value from counter c join gpu_counter_track k on c.track_id = k.id order by gpu_id, k.name, ts`,
		row{int64(0), "DRAM read", "B/s", u, 2e12},
		row{int64(0), "DRAM read", "B/s", u + 1000, 0.0},
		row{int64(0), "DRAM read", "B/s", u + 3000, 0.0},
		row{int64(0), "Power (NVML)", "W", u, 312.5},
		row{int64(0), "Power (NVML)", "W", u + 1000, 0.0},
		row{int64(0), "SM active", "%", u, 97.5},
		row{int64(0), "SM active", "%", u + 1000, 50.0},
		row{int64(0), "SM active", "%", u + 2000, 0.0},
		row{int64(0), "SM active", "%", u + 3000, 0.0},
		row{int64(1), "SM active", "%", u, 12.25},
		row{int64(1), "SM active", "%", u + 1000, 0.0})
}
