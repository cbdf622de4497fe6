package probe

const namespaceChild = "CUDATRACE_TEST_IN_NAMESPACE"

func recordInNamespace() int { return 1 }
