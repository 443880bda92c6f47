"""vLLM servers for MAI Graph: a small and a large model side by side (`launch`), and a miniature pair for any CPU."""
