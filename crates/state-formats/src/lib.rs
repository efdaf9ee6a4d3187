//! Foreign states in and out without loss: Terraform and OpenTofu state files.
