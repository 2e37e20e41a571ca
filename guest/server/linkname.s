// Functions without a body in this package are provided by the runtime.
