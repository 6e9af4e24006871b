"""Write a prompt file for the command line: prompts.npz with phi, y and phi_query."""

import ridgeformer as rf

task = rf.PrescribedSpectrum(features=8, supports=32, condition=100.0, ridge=1.0)
prompt = task.draw(16, seed=0)
prompt.save("prompts.npz")
print(f"prompts.npz: phi {list(prompt.phi.shape)}, λ_max(K) = {task.max_eigenvalue:g}")
