package stats

// A Log is what the JSON says of a log. docs/stats.md documents it.
type Log struct {
	Name       string   `json:"name"`
	Complete   bool     `json:"complete"`
	GPUs       []string `json:"gpus"`
	Driver     string   `json:"driver_version"`
	Release    string   `json:"nvidia_driver"`
	Revision   string   `json:"git_revision"`
	Start      string   `json:"start"` // RFC 3339, UTC, of the recording; "" when not known
	Calls      string   `json:"call_source"`
	GPU        string   `json:"gpu_source"`
	Memory     string   `json:"memory_source"`
	Schedule   string   `json:"schedule"`
	Filtered   bool     `json:"filtered"`
	Ended      string   `json:"ended"` // how the program ended: "exit code 0", "signal 6 (SIGABRT)"; "" when not known
	CUDANS     uint64   `json:"cuda_ns"`
	PeakDevice uint64   `json:"peak_device_bytes"`
}
