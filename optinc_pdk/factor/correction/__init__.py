"""Phases for meshes with imperfect devices: local correction, then least squares on the remaining error.

`mesh_correction` fits one mesh to a unitary or orthogonal matrix, `layer_correction` the two meshes of a real weight
matrix. Both combine `ideal_phases` (phases of ideal devices), `local_correction` (each MZI on its own) and
`least_squares` (cost, gradient and L-BFGS) or `newton` (exact second derivatives). `field_propagation` and `adjoint`
compute the derivatives of a mesh's matrix, the latter with the compiled loops of `adjoint_kernels`.
"""
