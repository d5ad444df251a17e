"""Phases for meshes with imperfect devices: local correction, then least squares on the remaining error.

`ideal_phases` has the phases of ideal devices, `local_correction` corrects each MZI on its own, and `least_squares` and
`mesh_chain` fit all phases of a mesh, or of two with attenuators between them. `adjoint` computes the derivatives of a
mesh's matrix with the compiled loops of `adjoint_kernels`.
"""
